/** `shoal saved-model` and `shoal predict`: declarations. */
import { buildCommand, buildRouteMap } from '@stricli/core';
import type { ShoalContext } from '../../context.js';

export interface ShowFlags {
  readonly json: boolean;
}

export interface PredictFlags {
  readonly signature: string;
  readonly input: string;
  readonly tag: readonly string[];
  readonly json: boolean;
}

const json = { kind: 'boolean', default: false, brief: 'Print as JSON', withNegated: false } as const;

const directory = {
  parse: String,
  placeholder: 'dir',
  brief: 'The directory of one version, with a saved_model.pb in it',
} as const;

const showCommand = buildCommand<ShowFlags, [string], ShoalContext>({
  loader: async () => (await import('./show.js')).runShow,
  parameters: { flags: { json }, positional: { kind: 'tuple', parameters: [directory] } },
  docs: {
    brief: 'Show the tags, signatures and files of a SavedModel',
    fullDescription:
      'Shows what a SavedModel takes and returns, by its signatures, and what it is made of.\n' +
      'Nothing is loaded into TensorFlow.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal saved-model show export/3\n' +
      '  shoal saved-model show export/3 --json',
  },
});

export const savedModelCommands = buildRouteMap<string, ShoalContext>({
  routes: { show: showCommand },
  docs: {
    brief: 'Look at SavedModels',
    fullDescription: 'Look at SavedModels.\n\nExamples:\n  shoal saved-model show export/3',
  },
});

export const predictCommand = buildCommand<PredictFlags, [string], ShoalContext>({
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
        brief: 'A tag of the graph; several by repeating it',
      },
      json,
    },
    positional: { kind: 'tuple', parameters: [directory] },
  },
  docs: {
    brief: 'Call a signature of a SavedModel',
    fullDescription:
      'Loads a SavedModel of TensorFlow 1 or 2 and calls one of its signatures.\n' +
      'The inputs are a JSON object by name, each a scalar or nested arrays; {"b64": "..."} stands for bytes, and\n' +
      '{"indices": …, "values": …, "denseShape": …} for a sparse input.\n' +
      'A wrong input is an error with exit code 2.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal predict export/3 --signature predict_images --input \'{"images": [[0, 0.5, 1]]}\'\n' +
      '  shoal predict export/3 --input inputs.json --json\n' +
      '  make-inputs | shoal predict export/3 --input -',
  },
});
