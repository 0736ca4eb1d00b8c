/**
 * Server reflection, v1 and v1alpha: clients such as grpcurl read the services and messages from the server. Files are
 * those of the code generator, which has merged the original ones.
 */
import {
  create,
  type DescFile,
  type DescMessage,
  type DescService,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import * as v1 from '../../../base/proto/generated/reflection_v1_pb.js';
import * as v1alpha from '../../../base/proto/generated/reflection_v1alpha_pb.js';
import { ServingError, statusNumber } from '../status.js';
import { decode, pathOf, type RpcMethod } from './methods.js';

/** Far more than the name of a symbol. */
const MAX_REQUEST_BYTES = 16 << 10;

type Response = MessageInitShape<typeof v1.ServerReflectionResponseSchema>['messageResponse'];

export function reflectionService(services: readonly DescService[]): [string, RpcMethod][] {
  const all = [...services, v1.ServerReflection, v1alpha.ServerReflection];
  const index = new Index(all);
  // The messages of both versions are the same; only their package differs.
  const versions = [v1, v1alpha as unknown as typeof v1];
  return versions.map(
    ({ ServerReflection, ServerReflectionRequestSchema, ServerReflectionResponseSchema }) => [
      pathOf(ServerReflection, ServerReflection.method.serverReflectionInfo),
      {
        kind: 'stream',
        open: (call) => {
          let answers = Promise.resolve();
          const answer = async (message: Buffer): Promise<void> => {
            const originalRequest = decode(ServerReflectionRequestSchema, message);
            const messageResponse = index.answer(originalRequest.messageRequest);
            const response = { validHost: originalRequest.host, originalRequest, messageResponse };
            await call.send([
              toBinary(ServerReflectionResponseSchema, create(ServerReflectionResponseSchema, response)),
            ]);
          };
          let waiting = 0;
          // A client that sends and does not read must not fill the memory.
          const finish = () => {
            waiting -= 1;
            if (waiting === 0) call.resume();
          };
          call.receive(
            (message) => {
              if (message.length > MAX_REQUEST_BYTES) {
                call.fail(new ServingError('RESOURCE_EXHAUSTED', 'A request of reflection names one symbol'));
                return;
              }
              waiting += 1;
              call.pause();
              answers = answers
                .then(() => answer(message))
                .catch((error: unknown) => call.fail(error))
                .then(finish);
            },
            () => void answers.then(() => call.end()),
          );
          call.allowSilence();
        },
      },
    ],
  );
}

/** The files that describe the services, by name and by the symbols in them. */
class Index {
  readonly #services: readonly DescService[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();

  constructor(services: readonly DescService[]) {
    this.#services = services;
    for (const { file } of services) this.#addFile(file);
  }

  answer(request: v1.ServerReflectionRequest['messageRequest']): Response {
    switch (request.case) {
      case 'listServices':
        return {
          case: 'listServicesResponse',
          value: { service: this.#services.map(({ typeName }) => ({ name: typeName })) },
        };
      case 'fileByFilename':
        return this.#fileResponse(this.#files.get(request.value), request.value);
      case 'fileContainingSymbol':
        return this.#fileResponse(this.#symbols.get(request.value), request.value);
      case 'allExtensionNumbersOfType':
        if (this.#symbols.has(request.value))
          return { case: 'allExtensionNumbersResponse', value: { baseTypeName: request.value } };
        return failure('NOT_FOUND', `${request.value} is not known`);
      case 'fileContainingExtension':
        return failure('NOT_FOUND', 'There are no extensions');
      default:
        return failure('INVALID_ARGUMENT', 'The request asks for nothing');
    }
  }

  /** The file and all that it imports, so that clients need not ask again. */
  #fileResponse(file: DescFile | undefined, what: string): Response {
    if (!file) return failure('NOT_FOUND', `${what} is not known`);
    const found = new Set<DescFile>();
    const visit = (one: DescFile): void => {
      if (found.has(one)) return;
      found.add(one);
      one.dependencies.forEach(visit);
    };
    visit(file);
    const fileDescriptorProto = [...found].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
    return { case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
  }

  #addFile(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const service of file.services) {
      this.#symbols.set(service.typeName, file);
      for (const { name } of service.methods) this.#symbols.set(`${service.typeName}.${name}`, file);
    }
    for (const { typeName } of file.enums) this.#symbols.set(typeName, file);
    for (const message of file.messages) this.#addMessage(message, file);
    for (const dependency of file.dependencies) this.#addFile(dependency);
  }

  #addMessage(message: DescMessage, file: DescFile): void {
    this.#symbols.set(message.typeName, file);
    for (const { name } of message.fields) this.#symbols.set(`${message.typeName}.${name}`, file);
    for (const { typeName } of message.nestedEnums) this.#symbols.set(typeName, file);
    for (const nested of message.nestedMessages) this.#addMessage(nested, file);
  }
}

const failure = (status: 'NOT_FOUND' | 'INVALID_ARGUMENT', errorMessage: string): Response => ({
  case: 'errorResponse',
  value: { errorCode: statusNumber(status), errorMessage },
});
