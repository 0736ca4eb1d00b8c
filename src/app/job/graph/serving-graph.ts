/** The graph that a job exports: its model on placeholders, without an optimizer, and its signatures. */
import { invalid } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output, OutputLike } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { getOrCreateGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { nodesOf, reach } from '../../../training/saved-model/graph/prune-graph.js';
import type { SignatureDefMap } from '../../../training/saved-model/signatures/check-signatures.js';
import { signatureConstants } from '../../../training/saved-model/signatures/constants.js';
import {
  predictSignatureDef,
  type SignatureTensors,
} from '../../../training/saved-model/signatures/signature-def.js';
import { callModel } from '../definition/call-model.js';
import type { InputValues, JobDefinition, JobOutputs, ModelInput } from '../definition/define-job.js';
import { labelInputs } from '../definition/label-inputs.js';
import { EXAMPLES, parsedExamples, placeholdersFor } from './serving-inputs.js';

export interface ServingGraph {
  readonly graph: Graph;
  readonly signatures: SignatureDefMap;
  /** What the user may not expect of the default signature. */
  readonly warnings: readonly string[];
}

type Input = ModelInput<InputValues>;

interface Built {
  readonly input: Input;
  readonly outputs: JobOutputs;
  readonly loss: OutputLike | undefined;
}

/** The caller closes the graph. */
export function buildServingGraph(job: JobDefinition): ServingGraph {
  const graph = new Graph();
  if (job.seed !== undefined) graph.seed = job.seed;
  try {
    const warnings: string[] = [];
    const signatures = graph.asDefault(() => {
      getOrCreateGlobalStep(graph);
      return signaturesOf(job, graph, (warning) => warnings.push(warning));
    });
    return { graph, signatures, warnings };
  } catch (error) {
    graph[Symbol.dispose]();
    throw error;
  }
}

type Warn = (warning: string) => void;

function signaturesOf(job: JobDefinition, graph: Graph, warn: Warn): SignatureDefMap {
  let built: Built | undefined;
  const model = (given: Partial<Input> = {}): Built => {
    if (built) {
      throw invalid(`export.signatures of job '${job.name}' builds the model twice`, {
        hint: 'Call model() once; several signatures can use the same outputs.',
      });
    }
    const input = { ...placeholdersFor(job, given), ...given } as Input;
    const parts = { input, training: false, params: job.params ?? {} };
    const { outputs, loss } = callModel(job, parts, []);
    built = { input, outputs: outputs ?? {}, loss };
    return built;
  };
  if (job.export?.signatures) return job.export.signatures({ model });
  const { examples } = job.export ?? {};
  if (!examples) return defaultSignature(job, graph, { ...model(), warn });
  const { serialized, parsed } = parsedExamples(job, typeof examples === 'function' ? examples() : examples);
  const { input, ...made } = model(parsed);
  const others = Object.entries(input).filter(([name]) => !(name in parsed));
  return defaultSignature(job, graph, {
    ...made,
    input: { ...Object.fromEntries(others), [EXAMPLES]: serialized },
    warn,
  });
}

/** A signature of the outputs that depend on the input, and of the inputs that they need. */
function defaultSignature(
  { name }: JobDefinition,
  graph: Graph,
  { input, outputs, loss, warn }: Built & { readonly warn: Warn },
): SignatureDefMap {
  const nodes = nodesOf(graph.toGraphDef());
  const needs = (output: OutputLike) => reach(nodes, [output.toOutput().op.name]);
  const partsOf = (value: Output | SparseTensor): readonly Output[] =>
    value instanceof SparseTensor ? [value.indices, value.values, value.denseShape] : [value];
  const served: Record<string, OutputLike> = {};
  const uses: Use[] = [];
  const taken: Record<string, SignatureTensors[string]> = {};
  for (const [key, output] of Object.entries(outputs)) {
    const needed = needs(output);
    const own = Object.entries(input).filter(([, value]) =>
      partsOf(value).some(({ op }) => needed.has(op.name)),
    );
    if (own.length === 0) continue;
    served[key] = output;
    uses.push({ key, inputs: own.map(([inputName]) => inputName) });
    for (const [inputName, value] of own) taken[inputName] = value;
  }
  if (Object.keys(served).length === 0) {
    const listed = Object.keys(outputs).join(', ');
    throw invalid(`Job '${name}' has nothing to export: no output of its model depends on the input`, {
      hint:
        `${listed === '' ? 'It has no outputs' : `Its outputs are ${listed}`}. ` +
        'Return the prediction among the outputs, or declare export.signatures.',
    });
  }
  const inputNodes = new Map(
    Object.entries(input).map(([inputName, value]) => [inputName, partsOf(value).map(({ op }) => op.name)]),
  );
  warnOfLabels(name, uses, loss ? labelInputs(nodes, loss.toOutput().op.name, inputNodes) : [], warn);
  return {
    [signatureConstants.defaultServingSignatureDefKey]: predictSignatureDef({
      inputs: taken,
      outputs: served,
    }),
  };
}

/** An output, and the inputs that it needs. */
interface Use {
  readonly key: string;
  readonly inputs: readonly string[];
}

/** An accuracy among the outputs needs the labels: whoever calls the signature would have to know them. */
function warnOfLabels(job: string, uses: readonly Use[], labels: readonly string[], warn: Warn): void {
  for (const { key, inputs } of uses) {
    const less = uses.find(
      (other) => other.inputs.every((one) => inputs.includes(one)) && other.inputs.length < inputs.length,
    );
    const needsLabels = labels.every((one) => inputs.includes(one));
    const extra = less ? inputs.filter((one) => !less.inputs.includes(one)) : needsLabels ? labels : [];
    if (extra.length === 0) continue;
    const hint = less
      ? `'${less.key}' does not need it. If it is a label, remove '${key}' from the outputs`
      : `if it is a label, return the prediction among the outputs instead of '${key}'`;
    warn(
      `the exported signature of job '${job}' requires the input ${extra.map((one) => `'${one}'`).join(', ')} ` +
        `because of the output '${key}'; ${hint}, or declare export.signatures`,
    );
  }
}
