/** The gRPC face of a model server: PredictionService, ModelService, health and reflection on one port. */
import type { TlsOptions } from 'node:tls';
import { Health } from '../../../base/proto/generated/health_v1_pb.js';
import { ModelService, PredictionService } from '../../../base/proto/generated/serving_pb.js';
import type { Address } from '../../../distributed/cluster/spec/address.js';
import type { ModelServer } from '../core/model-server.js';
import type { MessageLimits } from '../messages/predict-messages.js';
import { healthService } from './health.js';
import { modelService } from './model-service.js';
import { predictionService } from './prediction-service.js';
import { reflectionService } from './reflection.js';
import { GRPC_LIMITS, type GrpcLimits, GrpcServer } from './server.js';

export interface GrpcOptions {
  /** Port 0: any free one. */
  readonly listen: Address;
  /** Default: no TLS. */
  readonly tls?: TlsOptions | undefined;
  /** The token of every call except those of the health service; default: none is needed. */
  readonly token?: string | undefined;
  readonly limits?: Partial<GrpcLimits & MessageLimits>;
  /** What the health service answers; default: whether every model has a version that serves. */
  readonly isReady?: () => boolean;
}

const MAX_STRINGS = 1 << 20;

/** Listens, and answers with the models of the server. The caller closes the server of models after this one. */
export async function serveGrpc(server: ModelServer, options: GrpcOptions): Promise<GrpcServer> {
  const { listen, tls, token, limits = {} } = options;
  const { maxMessageBytes = GRPC_LIMITS.maxMessageBytes } = limits;
  const { maxTensorBytes = maxMessageBytes, maxStrings = MAX_STRINGS } = limits;
  const services = [PredictionService, ModelService];
  const methods = new Map([
    ...predictionService(server, { maxTensorBytes, maxStrings }),
    ...modelService(server),
    ...healthService({
      services: services.map(({ typeName }) => typeName),
      isReady: options.isReady ?? (() => server.models.isReady),
    }),
    ...reflectionService([...services, Health]),
  ]);
  return await GrpcServer.start({ methods, listen, tls, token, limits });
}
