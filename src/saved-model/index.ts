/// <reference types="node" preserve="true" />
/** `shoal/saved-model`: exports for TensorFlow and TensorFlow Serving, and calls of their models. */
export { type ExportSession, SavedModelBuilder, type VariablesOptions } from './builder.js';
export type { SignatureDefMap } from './check-signatures.js';
export { signatureConstants, tags } from './constants.js';
export {
  describeSavedModel,
  type GraphDescription,
  type SavedModelDescription,
  type SignatureDescription,
} from './describe.js';
export { LoadedModel, type LoadOptions, loadSavedModel } from './loader.js';
export type { MetaGraphOptions } from './meta-graph-export.js';
export { RaggedTensorValue } from './ragged.js';
export type { CallOptions, Signature, Signatures, SignatureType, SignatureTypes } from './signature.js';
export {
  buildSignatureDef,
  buildTensorInfo,
  classificationSignatureDef,
  predictSignatureDef,
  regressionSignatureDef,
  type SignatureTensor,
  type SignatureTensors,
} from './signature-def.js';
export type { InputValue, OutputValue, RaggedValue, SparseValue, TensorSpec } from './signature-values.js';
export { type SimpleSaveOptions, simpleSave } from './simple-save.js';
export type { NamedVariable, VariableSource, WriteRequest } from './variable-source.js';
