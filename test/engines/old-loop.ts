/** A loop with the ops of TensorFlow 1, which have a cycle and therefore come from a GraphDef. */
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type AttrValueSchema, DataType, GraphDefSchema } from '../../src/base/proto/generated/graph_pb.js';
import { importGraphDef } from '../../src/tensorflow/graph/import-graph-def.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';

type AttrInit = MessageInitShape<typeof AttrValueSchema>;
type Attrs = Record<string, AttrInit>;

/** Doubles a number until it is at least 100. */
export function oldLoop(
  start: Output,
  name: string,
  devices: { readonly loop: string; readonly body: string },
): Output {
  const type: Attrs = { T: { value: { case: 'type', value: DataType.DT_FLOAT } } };
  const constant = (value: number): Attrs => ({
    dtype: { value: { case: 'type', value: DataType.DT_FLOAT } },
    value: {
      value: { case: 'tensor', value: { dtype: DataType.DT_FLOAT, tensorShape: {}, floatVal: [value] } },
    },
  });
  const node = (op: string, own: string, input: string[], attr: Attrs = type, device = devices.loop) => ({
    name: own,
    op,
    input,
    device,
    attr,
  });
  const def = create(GraphDefSchema, {
    node: [
      node('Enter', 'enter', ['start'], {
        ...type,
        frame_name: { value: { case: 's', value: new TextEncoder().encode(name) } },
      }),
      node('Merge', 'merge', ['enter', 'next'], {
        ...type,
        N: { value: { case: 'i', value: 2n } },
      }),
      node('Const', 'limit', ['^merge'], constant(100)),
      node('Less', 'isLess', ['merge', 'limit']),
      node('LoopCond', 'continues', ['isLess'], {}),
      node('Switch', 'switch', ['merge', 'continues']),
      node('Identity', 'current', ['switch:1']),
      node('Const', 'two', ['^current'], constant(2)),
      node('Mul', 'double', ['current', 'two'], type, devices.body),
      node('NextIteration', 'next', ['double']),
      node('Exit', 'exit', ['switch']),
      node('Placeholder', 'start', [], { dtype: type.T as AttrInit }),
    ],
    versions: start.graph.toGraphDef().versions,
  });
  const { outputs } = importGraphDef(start.graph, toBinary(GraphDefSchema, def), {
    prefix: name,
    inputMap: { 'start:0': start },
    returnOutputs: ['exit:0'],
  });
  return outputs[0] as Output;
}
