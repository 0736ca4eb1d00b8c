/**
 * A plan: a run over several tasks, divided into stages. Each stage is a graph of its own that one task runs in its
 * session; the caller passes tensors between them, but for those that stay on their task. Tensors are numbered: the fed
 * ones first, then the outputs of the stages.
 */
import { createHash } from 'node:crypto';
import type { Keeping, StageTensors } from './keeping.js';

/** What a task needs to know to run a stage. Tasks register it once, by its hash. */
export interface StageSpec {
  /** A serialized GraphDef. */
  readonly graph: Uint8Array;
  /** The placeholders of the graph, in the order of the stage's inputs. */
  readonly inputs: readonly string[];
  /** The tensors of the graph to return (`op:0`). */
  readonly outputs: readonly string[];
  /** Ops to run in addition to the outputs. */
  readonly targets: readonly string[];
  /** The stage consists of one op that waits for other runs, such as a dequeue, and can be run again until it succeeds. */
  readonly waits: boolean;
}

/** The SHA-256 of a specification, in hexadecimal. */
export function hashOf({ graph, inputs, outputs, targets, waits }: StageSpec): string {
  return createHash('sha256')
    .update(JSON.stringify([inputs, outputs, targets, waits]))
    .update(graph)
    .digest('hex');
}

export interface Stage extends StageTensors, Keeping {
  readonly spec: StageSpec;
  /** The hash of the specification. */
  readonly hash: string;
  /** The ops of the run that the stage executes, without copies of constants and handles; for messages and tests. */
  readonly ops: readonly string[];
}

export interface Plan {
  /** Every stage comes after those it depends on. */
  readonly stages: readonly Stage[];
  /** The number of tensors of a run, feeds included. */
  readonly tensors: number;
  /** The number of feeds: tensors [0, feeds) are fed. */
  readonly feeds: number;
  /** The tensor of each fetch. */
  readonly fetches: readonly number[];
}

/** A line for each stage, followed by its ops; tensors in brackets are not sent. For tests and traces. */
export function describePlan({ stages, fetches }: Plan): string {
  const lines = stages.map(({ task, inputs, outputs, after, ops, spec, present, keeps, withheld }, at) => {
    const list = (title: string, items: readonly (number | string)[]) =>
      items.length > 0 ? ` ${title} ${items.join(' ')}` : '';
    const kept = new Set(keeps.map(({ tensor }) => tensor));
    const ins = inputs.map((tensor, i) => (present.some(({ at }) => at === i) ? `(${tensor})` : tensor));
    const outs = outputs.map((tensor, i) => (withheld.includes(i) ? `(${tensor})` : tensor));
    const what = `${at} ${task}${spec.waits ? ' waits' : ''}`;
    const head = `${what}${list('after', after)}${list('in', ins)}${list('out', outs)}${list('keeps', [...kept])}`;
    return [head, ...ops.map((op) => `    ${op}`)].join('\n');
  });
  return [...lines, `fetches ${fetches.join(' ')}`].join('\n');
}
