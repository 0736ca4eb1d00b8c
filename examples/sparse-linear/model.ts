/** The model of scenario 001: a sparse linear classifier with two logits over very many features. */
import { type Graph, tf } from 'shoal';

type Output = ReturnType<typeof tf.constant>;

export interface Batch {
  readonly label: Output;
  readonly ids: InstanceType<typeof tf.SparseTensor>;
  readonly values: InstanceType<typeof tf.SparseTensor>;
}

// 3. The features of a record
export const FEATURES = {
  label: tf.fixedLenFeature([], 'float32'),
  ids: tf.varLenFeature('int64'),
  values: tf.varLenFeature('float32'),
} as const;

// 4. The variables
/** The variables: 30,000,000 × 2 weights in as many parts as there are ps, and a bias. */
export function variables(features: number, parts: number) {
  const weights = tf.partitionedVariable('weights', {
    shape: [features, 2],
    initializer: tf.zerosInitializer(),
    partitioner: tf.fixedSizePartitioner(parts),
  });
  const bias = tf.variable('bias', { shape: [2], initializer: tf.zerosInitializer() });
  return { weights, bias };
}

// 5. The classifier
export function classify({ weights, bias }: ReturnType<typeof variables>, { label, ids, values }: Batch) {
  const logits = tf.embeddingLookupSparse(weights, ids, values, { combiner: 'sum' }).add(bias);
  const labels = tf.cast(label, 'int64');
  const loss = tf.losses.sparseSoftmaxCrossEntropy(labels, logits);
  const scores = tf.softmax(logits);
  return { labels, logits, loss, scores, prediction: tf.argMax(logits, 1) };
}

// 6. Names for serving
/** Names the tensors that serving needs, as JSON in the collections `inputs` and `outputs` of the `.meta`. */
export function nameForServing(graph: Graph, serialized: Output, scores: Output): void {
  graph.addToCollection('inputs', JSON.stringify({ examples: serialized.name }));
  graph.addToCollection('outputs', JSON.stringify({ scores: scores.name }));
}
