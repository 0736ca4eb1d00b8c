/// <reference types="node" preserve="true" />
/** `shoal/saved-model`: exports for TensorFlow and TensorFlow Serving, and calls of their models. */

export type { MetaGraphOptions } from './graph/meta-graph-export.js';
export {
  describeSavedModel,
  type GraphDescription,
  type SavedModelDescription,
  type SignatureDescription,
} from './loading/describe.js';
export { LoadedModel, type LoadOptions, loadSavedModel } from './loading/loader.js';
export type { SignatureDefMap } from './signatures/check-signatures.js';
export { signatureConstants, tags } from './signatures/constants.js';
export type { RaggedValue } from './signatures/ragged.js';
export { RaggedTensorValue } from './signatures/ragged.js';
export type {
  CallOptions,
  Signature,
  Signatures,
  SignatureType,
  SignatureTypes,
} from './signatures/signature.js';
export {
  buildSignatureDef,
  buildTensorInfo,
  classificationSignatureDef,
  predictSignatureDef,
  regressionSignatureDef,
  type SignatureTensor,
  type SignatureTensors,
} from './signatures/signature-def.js';
export type { InputValue, OutputValue, SparseValue, TensorSpec } from './signatures/signature-values.js';
export type { NamedVariable } from './variables/trained-variables.js';
export type { VariableSource, WriteRequest } from './variables/variable-source.js';
export { type ExportSession, SavedModelBuilder, type VariablesOptions } from './writing/builder.js';
export { type SimpleSaveOptions, simpleSave } from './writing/simple-save.js';
