/** The examples of a request for classify or regress, serialized as the model parses them. */
import { toBinary } from '@bufbuild/protobuf';
import { ExampleSchema } from '../../../base/proto/generated/example_pb.js';
import type { Input } from '../../../base/proto/generated/serving_pb.js';
import { invalidRequest } from '../status.js';

export function readExamples(input: Input | undefined): readonly Uint8Array[] {
  const kind = input?.kind;
  switch (kind?.case) {
    case 'exampleList':
      return notEmpty(kind.value.examples.map((example) => toBinary(ExampleSchema, example)));
    case 'exampleListWithContext': {
      const { examples, context } = kind.value;
      const shared = context ? toBinary(ExampleSchema, context) : new Uint8Array(0);
      // Serialized messages that follow each other are one merged message.
      return notEmpty(examples.map((example) => Buffer.concat([toBinary(ExampleSchema, example), shared])));
    }
    default:
      throw invalidRequest('Input is empty.');
  }
}

function notEmpty(examples: readonly Uint8Array[]): readonly Uint8Array[] {
  if (examples.length === 0) throw invalidRequest('Input is empty.');
  return examples;
}
