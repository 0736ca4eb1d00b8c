/** The models of the cluster benchmark, in `bench/programs/models.mjs` and `cluster.py`, and the goals of their rows. */
import type { Engine } from './run-cluster.js';

export interface Shape {
  readonly ps: number;
  readonly workers: number;
}

export interface ClusterModel {
  readonly id: string;
  readonly name: string;
  readonly shapes: readonly Shape[];
  /** The shapes with rows about TLS. */
  readonly tlsShapes: readonly Shape[];
  /** The shapes with rows about `shoal run`; default: none. */
  readonly jobShapes?: readonly Shape[];
  /** Against Python, with one and with several steps in flight. */
  readonly goals: Readonly<Record<Engine, readonly [one: number, several: number]>>;
  /** How long a measurement lasts, relative to that of a model with short steps; default: 1. */
  readonly length?: number;
}

const ONE: Shape = { ps: 1, workers: 1 };
const TWO: Shape = { ps: 2, workers: 2 };
const THREE: Shape = { ps: 2, workers: 3 };

export const MODELS: readonly ClusterModel[] = [
  {
    id: 'linear',
    name: 'linear regression',
    shapes: [ONE, THREE],
    tlsShapes: [THREE],
    jobShapes: [THREE],
    goals: { grpc: [1, 1.5], direct: [8, 8] },
  },
  {
    id: 'softmax',
    name: 'softmax regression, batch 100',
    shapes: [ONE, THREE],
    tlsShapes: [THREE],
    jobShapes: [THREE],
    goals: { grpc: [1, 1.5], direct: [2.5, 3] },
  },
  {
    id: 'perceptron',
    name: 'perceptron of 0.67 million parameters, batch 64',
    shapes: [ONE, TWO],
    tlsShapes: [ONE, TWO],
    goals: { grpc: [1, 1], direct: [2, 2.5] },
  },
  {
    id: 'dense',
    name: 'dense layers of 25 million parameters, batch 32',
    shapes: [ONE, TWO],
    tlsShapes: [ONE, TWO],
    goals: { grpc: [1, 1], direct: [1.2, 1.4] },
    length: 3,
  },
  {
    id: 'rows',
    name: 'a row sliced on the ps from eight variables of 64 MB',
    shapes: [ONE],
    tlsShapes: [],
    goals: { grpc: [1, 1], direct: [1, 1] },
  },
  {
    id: 'gather',
    name: '4,096 rows gathered from 200,000 × 64, Adagrad',
    shapes: [ONE],
    tlsShapes: [],
    goals: { grpc: [1, 1], direct: [1, 1] },
  },
];

export const keyOf = ({ ps, workers }: Shape): string => `${ps}+${workers}`;

export const describeShape = ({ ps, workers }: Shape): string =>
  `${ps} ps + ${workers} worker${workers === 1 ? '' : 's'}`;
