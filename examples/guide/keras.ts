import { tf } from 'shoal';

const x = Array.from({ length: 256 }, (_, i) => [Math.sin(i), Math.cos(3 * i)]);
const y = x.map(([a = 0, b = 0]) => (a + b > 0 ? 1 : 0));

const model = new tf.keras.Sequential([
  tf.keras.Input({ shape: [2] }),
  tf.keras.layers.dense(16, { activation: 'relu' }),
  tf.keras.layers.dense(1, { activation: 'sigmoid' }),
]);
model.compile({ optimizer: tf.train.adam(0.01), loss: 'binaryCrossentropy', metrics: ['accuracy'] });

const { history } = await model.fit(x, y, { epochs: 30 });
console.log(history.loss?.at(-1), await model.evaluate(x, y));
console.log(await model.predict([[0.5, 0.5]]));
await model.save('export/sign');
await model.close();
