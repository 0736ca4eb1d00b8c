/** TensorFlow 1's simple_save: one graph for serving, with one signature. */
import type { TrainingRunner } from '../../train/task/training-runner.js';
import { signatureConstants, tags } from '../signatures/constants.js';
import { predictSignatureDef, type SignatureTensors } from '../signatures/signature-def.js';
import { SavedModelBuilder, type VariablesOptions } from './builder.js';

export interface SimpleSaveOptions extends Omit<VariablesOptions, 'signatureDefMap'> {
  readonly inputs: SignatureTensors;
  readonly outputs: SignatureTensors;
}

/** Exports to `exportDir`; resolves with that directory when the export is published. */
export async function simpleSave(
  session: Pick<TrainingRunner, 'graph' | 'run'>,
  exportDir: string,
  options: SimpleSaveOptions,
): Promise<string> {
  const { inputs, outputs, ...others } = options;
  await using builder = new SavedModelBuilder(exportDir);
  await builder.addMetaGraphAndVariables(session, [tags.serving], {
    ...others,
    signatureDefMap: {
      [signatureConstants.defaultServingSignatureDefKey]: predictSignatureDef({ inputs, outputs }),
    },
  });
  return await builder.save(others.signal ? { signal: others.signal } : {});
}
