/** Recurrent layers and their wrappers. */
import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { LAYER_OPTIONS } from '../../../tensorflow/layers/known-options.js';
import type {
  GruOptions,
  LstmOptions,
  RecurrentOptions,
  RecurrentResult,
} from '../../../tensorflow/layers/sequence/options.js';
import {
  gru as buildGru,
  lstm as buildLstm,
  simpleRnn as buildSimpleRnn,
  type KeepsAll,
} from '../../../tensorflow/layers/sequence/recurrent.js';
import { concat, expandDims, reshape, reverse, slice } from '../../../tensorflow/ops/arrays.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { add, div, mul, where } from '../../../tensorflow/ops/math.js';
import { type Built, Layer, type LayerCall, type LayerParts, type Mask } from '../layer.js';
import { define, layerParts, type NamedLayer, type Options } from './define.js';

export interface RecurrentLayerOptions {
  /** Whether the result has the outputs of all steps, [batch, steps, units], not only the last. Default: false. */
  readonly returnSequences?: boolean;
  /** Whether `applyAll` returns the last state too. Default: false. */
  readonly returnState?: boolean;
}

type Given<O extends object> = OrNull<Options<O & RecurrentLayerOptions>>;
type Build<O> = (x: Output, units: number, options: O, kept: KeepsAll) => RecurrentResult;

/** A layer that can be made again with other options, as `bidirectional` does. */
class RecurrentLayer extends Layer {
  readonly sequence: Required<RecurrentLayerOptions>;
  readonly again: (changes: OrNull<Options<RecurrentOptions>>) => RecurrentLayer;
  readonly goBackwards: boolean;

  constructor(
    parts: LayerParts,
    given: RecurrentLayerOptions & Pick<RecurrentOptions, 'goBackwards'>,
    again: RecurrentLayer['again'],
  ) {
    super(parts);
    this.sequence = {
      returnSequences: given.returnSequences ?? false,
      returnState: given.returnState ?? false,
    };
    this.goBackwards = given.goBackwards ?? false;
    this.again = again;
  }
}

const recurrent =
  <O extends RecurrentOptions>(className: string, states: number, known: object, build: Build<O>) =>
  (units: number, options: Given<O> = {} as Given<O>): Layer => {
    const given = options as RecurrentLayerOptions & RecurrentOptions & NamedLayer;
    const parts = layerParts<object>(
      {
        className,
        args: { units },
        options,
        known: { ...known, returnSequences: true, returnState: true },
        inputs: { atLeast: 1 },
        body: (inputs, call, own: O & RecurrentLayerOptions) => runLayer(build, units, inputs, call, own),
      },
      {
        opensScope: true,
        outputCount: given.returnState ? 1 + states : 1,
        saved: { arguments: 'state' },
      },
    );
    const again = (changes: object): RecurrentLayer =>
      recurrent(className, states, known, build)(units, { ...options, ...changes }) as RecurrentLayer;
    return new RecurrentLayer(parts, given, again);
  };

function runLayer<O extends RecurrentOptions>(
  build: Build<O>,
  units: number,
  inputs: readonly Output[],
  { name, training, masks }: LayerCall,
  { returnSequences = false, returnState = false, ...own }: O & RecurrentLayerOptions,
): Built {
  const [x, ...initialState] = inputs;
  const options = {
    ...own,
    name,
    reuse: 'auto',
    training,
    mask: masks[0],
    ...(initialState.length > 0 && { initialState }),
  } as unknown as O;
  const { last, sequence, state } = build(x as Output, units, options, { keepsAll: returnSequences });
  return {
    outputs: [sequence ?? last, ...(returnState ? state : [])],
    masks: [returnSequences ? masks[0] : undefined],
  };
}

export const simpleRnn = recurrent<RecurrentOptions>('SimpleRNN', 1, LAYER_OPTIONS.simpleRnn, buildSimpleRnn);
/** Its state is h and c. */
export const lstm = recurrent<LstmOptions>('LSTM', 2, LAYER_OPTIONS.lstm, buildLstm);
export const gru = recurrent<GruOptions>('GRU', 1, LAYER_OPTIONS.gru, buildGru);

export type MergeMode = 'concat' | 'sum' | 'mul' | 'ave';

export interface BidirectionalOptions extends NamedLayer {
  /** How the results of both directions are joined; default: `concat`. */
  readonly mergeMode?: MergeMode;
}

const MERGES: Readonly<Record<MergeMode, (a: Output, b: Output) => Output>> = {
  concat: (a, b) => concat([a, b], -1),
  sum: (a, b) => add(a, b),
  mul: (a, b) => mul(a, b),
  ave: (a, b) => div(add(a, b), 2),
};

/** A recurrent layer that reads sequences in both directions, with weights of its own for each. */
export function bidirectional(layer: Layer, options: OrNull<BidirectionalOptions> = {}): Layer {
  if (!(layer instanceof RecurrentLayer))
    throw invalid(`Layer bidirectional takes lstm, gru or simpleRnn; it got ${layer?.kind ?? layer}`);
  const name = layer.name ?? layer.kind;
  const forward = layer.again({ name: `forward_${name}` });
  const backward = layer.again({ name: `backward_${name}`, goBackwards: !layer.goBackwards });
  const { returnSequences, returnState } = layer.sequence;
  const { mergeMode = 'concat' } = options;
  const merge = MERGES[mergeMode ?? 'concat'];
  if (!merge)
    throw invalid(`mergeMode of bidirectional must be ${Object.keys(MERGES).join(', ')}; it is ${mergeMode}`);
  return define<BidirectionalOptions>(
    {
      className: 'Bidirectional',
      args: { layer },
      options,
      known: { mergeMode: true },
      inputs: { atLeast: 1 },
      body: ([x, ...state], { masks, build }) => {
        const half = state.length / 2;
        const run = (one: Layer, own: readonly Output[]) =>
          build(one, [x as Output, ...own], [masks[0]]).outputs;
        const [ahead, ...first] = run(forward, state.slice(0, half));
        const [back, ...second] = run(backward, state.slice(half));
        const steps = (y: Output): Output => (returnSequences ? blanked(y, masks[0]) : y);
        const last = returnSequences ? reverse(back as Output, [1]) : (back as Output);
        return {
          outputs: [
            merge(steps(ahead as Output), steps(last)),
            ...(returnState ? [...first, ...second] : []),
          ],
          masks: [returnSequences ? masks[0] : undefined],
        };
      },
    },
    {
      inner: [forward, backward],
      outputCount: returnState ? 1 + 2 * (layer.outputCount - 1) : 1,
      saved: { arguments: 'state' },
    },
  );
}

/** Masked steps are 0. */
const blanked = (y: Output, mask: Mask): Output =>
  mask ? where(expandDims(mask, -1), y, raw.zerosLike(y)) : y;

/** Applies a layer to each step of [batch, steps, …]. */
export function timeDistributed(
  given: Layer | { asLayer(): Layer },
  options: OrNull<NamedLayer> = {},
): Layer {
  const layer = given instanceof Layer ? given : given.asLayer();
  return define(
    {
      className: 'TimeDistributed',
      args: { layer },
      options,
      body: ([input], { build, masks, name }) => {
        const x = input as Output;
        const { shape } = x;
        if (shape === null || shape.length < 3)
          throw invalid(`Layer ${name} needs an input [batch, steps, …]; got ${x}`);
        const example = shape.slice(2);
        const sizes = slice(raw.shape(x), [0], [2]);
        const merged = reshape(x, concat([[-1], slice(raw.shape(x), [2], [-1])], 0)).setShape([
          null,
          ...example,
        ]);
        const [y] = build(layer, [merged]).outputs as [Output];
        const split = reshape(y, concat([sizes, slice(raw.shape(y), [1], [-1])], 0));
        const known = y.shape?.slice(1) ?? [];
        return {
          outputs: [split.setShape([shape[0] ?? null, shape[1] ?? null, ...known])],
          masks: [masks[0]],
        };
      },
    },
    { inner: [layer] },
  );
}
