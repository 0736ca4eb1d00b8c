/** `tf.random`: aliases of the ops for random values in `tf`. */
export {
  randomNormal as normal,
  randomShuffle as shuffle,
  randomUniform as uniform,
  setRandomSeed,
  truncatedNormal,
} from '../../tensorflow/ops/index.js';
