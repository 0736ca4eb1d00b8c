/** Small models for tests: TensorFlow Serving's half plus two and half plus three, and one for each kind of trouble. */
import { join } from 'node:path';
import { type Output, tf } from '../../../index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import {
  classificationSignatureDef,
  predictSignatureDef,
  regressionSignatureDef,
  SavedModelBuilder,
  type SignatureDefMap,
} from '../../../training/saved-model/index.js';

/** Writes a version of a model whose graph `build` makes. */
export async function writeModel(
  directory: string,
  build: () => { readonly signatures: SignatureDefMap },
): Promise<void> {
  const graph = new Graph();
  const { signatures, init } = graph.asDefault(() => ({ ...build(), init: tf.globalVariablesInitializer() }));
  await using session = Session.open({ graph });
  await session.run(init);
  await using builder = new SavedModelBuilder(directory);
  await builder.addMetaGraphAndVariables(session, ['serve'], { signatureDefMap: signatures });
  await builder.save();
}

/** `x / 2 + offset`, for tensors and for examples, with the signatures of TensorFlow Serving's model. */
export const writeHalfPlus = (base: string, version: number, offset: number): Promise<void> =>
  writeModel(join(base, String(version)), () => {
    const a = tf.getVariable('a', { shape: [], initializer: tf.constantInitializer(0.5) });
    const b = tf.getVariable('b', { shape: [], initializer: tf.constantInitializer(offset) });
    const half = (x: Output<'float32'>) => tf.add(tf.mul(a, x), b) as Output<'float32'>;
    const examples = tf.placeholder({ dtype: 'string', shape: null, name: 'tf_example' });
    const parsed = tf.parseExample(examples, {
      x: tf.fixedLenFeature([1], 'float32'),
      x2: tf.fixedLenFeature([1], 'float32', [0]),
    });
    const x = tf.identity(parsed.x, { name: 'x' }) as Output<'float32'>;
    const y = tf.identity(half(x), { name: 'y' });
    return {
      signatures: {
        serving_default: predictSignatureDef({ inputs: { x }, outputs: { y } }),
        regress_x_to_y: regressionSignatureDef({ examples, predictions: y }),
        classify_x_to_y: classificationSignatureDef({ examples, scores: y }),
      },
    };
  });

/** Several inputs and outputs of many types. */
export const writeTypes = (base: string): Promise<void> =>
  writeModel(join(base, '1'), () => {
    const input = <D extends 'float32' | 'int64' | 'string' | 'bool' | 'int32'>(name: string, dtype: D) =>
      tf.placeholder({ dtype, shape: [null], name });
    const numbers = tf.placeholder({ dtype: 'float32', shape: [null, 2], name: 'numbers' });
    const ids = input('ids', 'int64');
    const words = input('words', 'string');
    const flags = input('flags', 'bool');
    const small = input('small', 'int32');
    const image = input('image_bytes', 'string');
    return {
      signatures: {
        serving_default: predictSignatureDef({
          inputs: { numbers, ids, words, flags, small, image_bytes: image },
          outputs: {
            numbers: tf.identity(numbers),
            ids: tf.identity(ids),
            words: tf.identity(words),
            flags: tf.identity(flags),
            small: tf.identity(small),
            image_bytes: tf.identity(image),
          },
        }),
        ids: predictSignatureDef({ inputs: { ids }, outputs: { out: tf.identity(ids) } }),
        bytes: predictSignatureDef({
          inputs: { image_bytes: image },
          outputs: { image_bytes: tf.identity(image) },
        }),
        floats: predictSignatureDef({ inputs: { numbers }, outputs: { out: tf.identity(numbers) } }),
        total: predictSignatureDef({ inputs: { numbers }, outputs: { total: tf.sum(numbers) } }),
      },
    };
  });
