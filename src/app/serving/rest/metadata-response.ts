/** The answers about a model: its signatures, and the states of its versions. */
import { create, toJson } from '@bufbuild/protobuf';
import { SignatureDefSchema } from '../../../base/proto/generated/model_pb.js';
import type { ModelMetadata, VersionStatus } from '../requests.js';

const pretty = (value: unknown): string => `${JSON.stringify(value, null, 1)}\n`;

export function metadataResponse({ name, version, signatures }: ModelMetadata): string {
  const defs = Object.entries(signatures).map(([key, def]) => {
    const json = toJson(SignatureDefSchema, create(SignatureDefSchema, def), {
      alwaysEmitImplicit: true,
      useProtoFieldName: true,
    });
    return [key, json] as const;
  });
  return pretty({
    model_spec: { name, signature_name: '', version: String(version) },
    metadata: { signature_def: { signature_def: Object.fromEntries(defs) } },
  });
}

export const statusResponse = (statuses: readonly VersionStatus[]): string =>
  pretty({
    model_version_status: statuses.map(({ version, state, code, message }) => ({
      version: String(version),
      state,
      status: { error_code: code, error_message: message },
    })),
  });
