/** Builds layers in a graph: each keeps the variable scope in which it was built first, wherever it is used again. */
import { invalid, isShoalError, ShoalError } from '../../base/errors/errors.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { formatShape } from '../../tensorflow/tensor/shape.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import {
  absoluteVariableScope,
  currentVariableScope,
  globalVariables,
} from '../../tensorflow/variables/variable-scope.js';
import type { Built, Layer, Mask } from './layer.js';
import type { LayerVariables } from './layer-weights.js';

/** A layer in a graph. */
interface Placed extends LayerVariables {
  /** The variable scope around that of the layer. */
  readonly scope: string;
}

export class LayerBuilder {
  /** The layers that each graph contains, with their variables. */
  readonly #graphs = new WeakMap<Graph, Map<Layer, Placed>>();
  /** The variables of those layers. */
  readonly #claimed = new WeakSet<Variable>();

  /** The layers that were built in a graph. */
  builtIn(graph: Graph): readonly LayerVariables[] {
    return [...(this.#graphs.get(graph)?.values() ?? [])];
  }

  build(
    layer: Layer,
    inputs: readonly Output[],
    {
      name: wanted,
      training,
      masks = [],
    }: { readonly name: string; readonly training: boolean; readonly masks?: readonly Mask[] },
  ): Built {
    const { graph } = inputs[0] as Output;
    const placed = this.#graphs.get(graph) ?? new Map<Layer, Placed>();
    this.#graphs.set(graph, placed);
    const known = placed.get(layer);
    const here = currentVariableScope(graph).prefix;
    const { name, scope } = known ?? { name: wanted, scope: here };
    const earlier = globalVariables(graph).length;
    const call = {
      name,
      training,
      masks: inputs.map((_, i) => masks[i]),
      build: (inner: Layer, given: readonly Output[], own: readonly Mask[] = [], as?: string) =>
        this.build(inner, given, { name: as ?? inner.name ?? inner.kind, training, masks: own }),
    };
    const connect = () => located(name, layer, inputs, () => layer.connect(inputs, call));
    const built = scope === here ? connect() : graph.asDefault(() => absoluteVariableScope(scope, connect));
    // Layers inside this one have claimed theirs.
    const created = globalVariables(graph)
      .slice(earlier)
      .filter((variable) => !this.#claimed.has(variable));
    for (const variable of created) this.#claimed.add(variable);
    if (known && created.length > 0)
      throw invalid(
        `Layer ${name} does not share its variables: built again, it created ${created.map((one) => one.name).join(', ')}`,
        {
          hint:
            'The model would train these and evaluate others. Create variables with tf.variable or tf.layers, ' +
            "for training and evaluation alike, in a variable scope with reuse: 'auto' (the default).",
        },
      );
    if (!known) placed.set(layer, { name, scope, weights: layer.weights, variables: created });
    return built;
  }
}

/** Errors of the ops of a layer name it, unless they do. */
function located<T>(name: string, layer: Layer, inputs: readonly Output[], body: () => T): T {
  try {
    return body();
  } catch (error) {
    const isNamed =
      isShoalError(error) && /^Layer (.*, applied to |NAME\b)/.test(error.message.replace(name, 'NAME'));
    if (!isShoalError(error) || isNamed) throw error;
    const shapes = inputs.map(({ shape }) => formatShape(shape)).join(', ');
    const title = name === layer.kind ? name : `${name} (${layer.kind})`;
    throw new ShoalError(error.code, `Layer ${title}, applied to ${shapes}: ${error.message}`, {
      cause: error,
      ...(error.hint !== undefined && { hint: error.hint }),
    });
  }
}
