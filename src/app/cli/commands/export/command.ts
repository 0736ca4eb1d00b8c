/** Declares `shoal export`. */

import { PLACE_FLAGS, type PlaceFlags } from '../../checkpoint/flags.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { JOB_FLAGS } from '../../flags.js';

export interface ExportFlags extends Omit<PlaceFlags, 'job'> {
  readonly checkpoint: string;
  readonly out: string;
  readonly set?: readonly string[];
}

const { job: _, ...places } = PLACE_FLAGS;

export const exportCommand = command<ExportFlags, [string], ShoalContext>({
  loader: async () => (await import('./run.js')).runExport,
  parameters: {
    flags: {
      ...places,
      set: JOB_FLAGS.set,
      checkpoint: {
        kind: 'parsed',
        parse: String,
        default: 'latest',
        placeholder: 'latest|step|path',
        brief:
          'The checkpoint: latest, a step, or the path of a TensorFlow checkpoint such as ./dir/model.ckpt-500',
      },
      out: {
        kind: 'parsed',
        parse: String,
        placeholder: 'dir',
        brief: 'The directory of the new version, such as export/3; it must not exist',
      },
    },
    positional: {
      kind: 'tuple',
      parameters: [{ parse: String, placeholder: 'job', brief: 'The job file' }],
    },
  },
  docs: {
    brief: 'Export a checkpoint of a job as a SavedModel, for serving',
    fullDescription:
      'Exports a checkpoint of a job as a SavedModel for TensorFlow and TensorFlow Serving. The signatures are those that\n' +
      "the job declares in `export`; default: one that returns the model's outputs.\n" +
      'The checkpoint is read from the tasks of the job if it runs, otherwise from its directories. The values are verified.\n' +
      'The export is atomic: the directory appears only when it is complete.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal export job.ts --out export/1\n' +
      '  shoal export job.ts --checkpoint 5000 --out export/2 --agent 10.0.0.5:2222 --certs certs\n' +
      '  shoal export job.ts --checkpoint ./train_logs/model.ckpt-5000 --out export/3',
  },
});
