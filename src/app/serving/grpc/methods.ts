/** What a service is made of. Messages are bytes here; the services know their types. */
import {
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { malformed } from '../messages/wire-reader.js';
import type { Parts } from '../messages/wire-writer.js';
import type { RequestLimits } from '../requests.js';
import type { Call } from './call.js';

export type RpcMethod =
  | {
      readonly kind: 'unary';
      /** Whether it is answered without credentials. */
      readonly isOpen?: boolean;
      readonly answer: (message: Buffer, call: RequestLimits) => Promise<Parts> | Parts;
    }
  | { readonly kind: 'stream'; readonly isOpen?: boolean; readonly open: (call: Call) => void };

export const pathOf = (service: DescService, method: DescMethod): string =>
  `/${service.typeName}/${method.name}`;

export function decode<Desc extends DescMessage>(schema: Desc, bytes: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, bytes);
  } catch {
    throw malformed();
  }
}

/** A unary method with generated messages. */
export function unary<Request extends DescMessage, Response extends DescMessage>(
  request: Request,
  response: Response,
  answer: (
    message: MessageShape<Request>,
    call: RequestLimits,
  ) => Promise<MessageShape<Response>> | MessageShape<Response>,
): RpcMethod {
  return {
    kind: 'unary',
    answer: async (bytes, call) => [toBinary(response, await answer(decode(request, bytes), call))],
  };
}
