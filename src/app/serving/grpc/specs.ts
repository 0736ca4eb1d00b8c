/** ModelSpecs, from and to their messages. */
import { create } from '@bufbuild/protobuf';
import {
  type ModelSpec as ModelSpecMessage,
  ModelSpecSchema,
} from '../../../base/proto/generated/serving_pb.js';
import { missingModelSpec } from '../messages/predict-messages.js';
import type { ModelSpec, ResolvedSpec } from '../requests.js';

export function modelSpecOf(message: ModelSpecMessage | undefined): ModelSpec {
  if (!message) throw missingModelSpec();
  const { name, signatureName, versionChoice } = message;
  switch (versionChoice.case) {
    case 'version':
      return { name, signatureName, version: versionChoice.value.value };
    case 'versionLabel':
      return { name, signatureName, label: versionChoice.value };
    default:
      return { name, signatureName };
  }
}

export const protoSpec = ({ name, version, signatureName }: ResolvedSpec): ModelSpecMessage =>
  create(ModelSpecSchema, {
    name,
    signatureName,
    versionChoice: { case: 'version', value: { value: BigInt(version) } },
  });
