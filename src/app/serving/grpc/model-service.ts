/** TensorFlow Serving's ModelService: the states of versions, and another list of models. */
import { create } from '@bufbuild/protobuf';
import {
  GetModelStatusRequestSchema,
  GetModelStatusResponseSchema,
  ModelService,
  ReloadConfigRequestSchema,
  ReloadConfigResponseSchema,
  ModelVersionStatus_State as State,
} from '../../../base/proto/generated/serving_pb.js';
import type { ModelConfig } from '../config/model-config.js';
import type { ModelServer } from '../core/model-server.js';
import { invalidRequest, statusNumber } from '../status.js';
import { pathOf, type RpcMethod, unary } from './methods.js';
import { modelConfigOf } from './reload-config.js';
import { modelSpecOf } from './specs.js';

export function modelService(server: ModelServer): [string, RpcMethod][] {
  const { getModelStatus, handleReloadConfigRequest } = ModelService.method;
  return [
    [
      pathOf(ModelService, getModelStatus),
      unary(GetModelStatusRequestSchema, GetModelStatusResponseSchema, ({ modelSpec }) => {
        const statuses = server.status(modelSpecOf(modelSpec));
        return create(GetModelStatusResponseSchema, {
          modelVersionStatus: statuses.map(({ version, state, code, message }) => ({
            version: BigInt(version),
            state: State[state],
            status: { errorCode: statusNumber(code), errorMessage: message },
          })),
        });
      }),
    ],
    [
      pathOf(ModelService, handleReloadConfigRequest),
      unary(ReloadConfigRequestSchema, ReloadConfigResponseSchema, async ({ config }) => {
        const list = config?.config;
        if (list?.case !== 'modelConfigList')
          throw invalidRequest(
            'ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported',
          );
        const models: readonly ModelConfig[] = list.value.config.map(modelConfigOf);
        await server.reloadConfig(models);
        return create(ReloadConfigResponseSchema, { status: {} });
      }),
    ],
  ];
}
