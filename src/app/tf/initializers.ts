/** `tf.initializers`: aliases of the initializers in `tf`. */
export {
  constantInitializer as constant,
  globalVariablesInitializer as globalVariables,
  glorotNormal,
  glorotUniform,
  heNormal,
  heUniform,
  localVariablesInitializer as localVariables,
  onesInitializer as ones,
  orthogonal,
  randomNormalInitializer as randomNormal,
  randomUniformInitializer as randomUniform,
  tablesInitializer,
  truncatedNormalInitializer as truncatedNormal,
  variablesInitializer as variables,
  varianceScaling,
  zerosInitializer as zeros,
} from '../../tensorflow/variables/index.js';
