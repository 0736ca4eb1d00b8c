/** A model that is trained in one process, with feeds. */
import { Session, tf } from 'shoal';

const x = tf.placeholder({ shape: [null, 2] });
const w = tf.variable('w', { shape: [2, 1] });
const error = x.matMul(w).sub([[1]]);
const loss = error.square().mean();
const step = new tf.train.AdagradOptimizer(0.1).minimize(loss);

const session = Session.open();
await session.run(tf.globalVariablesInitializer());
for (let i = 0; i < 100; i++) {
  const { loss: value } = await session.run({ loss, step }, { feeds: [[x, [[1, 2]]]] });
  if (i % 10 === 0) console.log(value.number());
}
await session.close();
