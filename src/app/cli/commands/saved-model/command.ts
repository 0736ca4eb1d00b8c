/** Declares `shoal saved-model` and `shoal predict`. */
import { buildRouteMap } from '@stricli/core';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { JSON_FLAG as json } from '../../flags.js';

export interface ShowFlags {
  readonly json: boolean;
}

export interface PredictFlags {
  readonly signature: string;
  readonly input: string;
  readonly tag: readonly string[];
  readonly json: boolean;
}

const directory = {
  parse: String,
  placeholder: 'dir',
  brief: 'The directory of one version, which contains saved_model.pb',
} as const;

const showCommand = command<ShowFlags, [string], ShoalContext>({
  loader: async () => (await import('./show.js')).runShow,
  parameters: { flags: { json }, positional: { kind: 'tuple', parameters: [directory] } },
  docs: {
    brief: 'Show the tags, signatures and files of a SavedModel',
    fullDescription:
      'Shows the inputs and outputs of a SavedModel’s signatures, and its files, without loading it into TensorFlow.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal saved-model show export/3\n' +
      '  shoal saved-model show export/3 --json',
  },
});

export const savedModelCommands = buildRouteMap<string, ShoalContext>({
  routes: { show: showCommand },
  docs: {
    brief: 'Inspect SavedModels',
    fullDescription: 'Inspect SavedModels.\n\nExamples:\n  shoal saved-model show export/3',
  },
});

export const predictCommand = command<PredictFlags, [string], ShoalContext>({
  loader: async () => (await import('./predict.js')).runPredict,
  parameters: {
    flags: {
      signature: {
        kind: 'parsed',
        parse: String,
        default: 'serving_default',
        placeholder: 'name',
        brief: 'The signature to call',
      },
      input: {
        kind: 'parsed',
        parse: String,
        placeholder: 'json|file|-',
        brief: 'The inputs by name: JSON, a file with JSON, or - for standard input',
      },
      tag: {
        kind: 'parsed',
        parse: String,
        variadic: true,
        default: ['serve'],
        placeholder: 'tag',
        brief: 'A tag of the graph; repeat it for several',
      },
      json,
    },
    positional: { kind: 'tuple', parameters: [directory] },
  },
  docs: {
    brief: 'Call a signature of a SavedModel',
    fullDescription:
      'Loads a SavedModel of TensorFlow 1 or 2 and calls one of its signatures.\n' +
      'The inputs are a JSON object by name, each a scalar or nested arrays; use {"b64": "..."} for bytes, and\n' +
      '{"indices": …, "values": …, "denseShape": …} for a sparse input.\n' +
      'Exits with 2 if an input is invalid.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal predict export/3 --signature predict_images --input \'{"images": [[0, 0.5, 1]]}\'\n' +
      '  shoal predict export/3 --input inputs.json --json\n' +
      '  make-inputs | shoal predict export/3 --input -',
  },
});
