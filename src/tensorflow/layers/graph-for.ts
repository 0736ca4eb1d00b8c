/** The graph to build in: that of the current scope (possibly a function's), else that of the input. */
import type { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { activeScope } from '../graph/scope.js';

export const graphFor = (x: Output): Graph => activeScope()?.graph ?? x.graph;
