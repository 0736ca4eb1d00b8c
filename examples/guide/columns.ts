/** Feature columns in one process: what a model learns of words, of numbers and of both together. */
import { Session, tf } from 'shoal';

const fc = tf.featureColumn;
const age = fc.bucketizedColumn(fc.numericColumn('age'), [18, 40, 65]);
const color = fc.categoricalColumnWithVocabularyList('color', ['red', 'green', 'blue'], { numOovBuckets: 1 });
const both = fc.crossedColumn([age, 'color'], 100);

// Features by name, one value or a list for each example. Those of a cross are words, or a sparse tensor of words.
const features = { age: tf.constant([16, 30, 30, 70]), color: tf.constant(['red', 'red', 'pink', 'blue']) };
const clicked = tf.constant([[1], [0], [1], [0]]);

const wide = fc.linearModel(features, [age, color, both]);
const deep = fc.inputLayer(features, [age, fc.embeddingColumn(color, 4)]);
const logits = wide.add(tf.layers.dense(deep, 1));
const loss = tf.losses.sigmoidCrossEntropy(clicked, logits);
const step = tf.train.adagrad(0.5).minimize(loss);

const session = Session.open();
await session.run([tf.globalVariablesInitializer(), tf.tablesInitializer()]);
for (let i = 0; i < 100; i++) await session.run(step);
console.log(`loss ${(await session.run(loss)).number().toFixed(3)}`);
// As in TensorFlow 1: linear_model/color/weights, input_layer/color_embedding/embedding_weights, …
console.log(tf.globalVariables().map(({ name, shape }) => `${name} [${shape}]`));
await session.close();
