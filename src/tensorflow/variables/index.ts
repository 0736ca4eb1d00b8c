/** State: variables, their scopes, partitions and initial values. */
export { GraphKeys } from './collections.js';
export { createGlobalStep, getGlobalStep, getOrCreateGlobalStep } from './global-step.js';
export {
  globalVariablesInitializer,
  localVariablesInitializer,
  reportUninitializedVariables,
  tablesInitializer,
  variablesInitializer,
} from './initialize.js';
export {
  constantInitializer,
  glorotNormal,
  glorotUniform,
  heNormal,
  heUniform,
  type Initializer,
  type OrthogonalOptions,
  onesInitializer,
  orthogonal,
  randomNormalInitializer,
  randomUniformInitializer,
  type Seeded,
  truncatedNormalInitializer,
  type VarianceScalingOptions,
  varianceScaling,
  zerosInitializer,
} from './initializers.js';
export {
  type ExportMetaGraphOptions,
  exportMetaGraph,
  type ImportMetaGraphOptions,
  importMetaGraph,
} from './meta-graph.js';
export {
  fixedSizePartitioner,
  minMaxVariablePartitioner,
  PartitionedVariable,
  type Partitioner,
  variableAxisSizePartitioner,
} from './partitioned.js';
export { type SliceInfo, Variable, type VariableOptions } from './variable.js';
export {
  currentVariableScope,
  type GetVariableOptions,
  getVariable,
  globalVariables,
  localVariables,
  type NewVariableOptions,
  newVariable,
  partitionedVariable,
  type ScopeSettings,
  trainableVariables,
  type VariableScopeOptions,
  variable,
  variableScope,
} from './variable-scope.js';
