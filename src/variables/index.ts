/** State: variables, their scopes, parts, first values. */
export * from './collections.js';
export * from './global-step.js';
export * from './initialize.js';
export * from './initializers.js';
export * from './partitioned.js';
export * from './variable.js';
export * from './variable-scope.js';
