/** TensorFlow's constants for element types. Everywhere else an element type is its name, such as `'float32'`. */
export const bfloat16 = 'bfloat16';
export const bool = 'bool';
export const complex64 = 'complex64';
export const complex128 = 'complex128';
export const float16 = 'float16';
export const float32 = 'float32';
export const float64 = 'float64';
export const int8 = 'int8';
export const int16 = 'int16';
export const int32 = 'int32';
export const int64 = 'int64';
export const qint8 = 'qint8';
export const qint16 = 'qint16';
export const qint32 = 'qint32';
export const quint8 = 'quint8';
export const quint16 = 'quint16';
export const resource = 'resource';
export const string = 'string';
export const uint8 = 'uint8';
export const uint16 = 'uint16';
export const uint32 = 'uint32';
export const uint64 = 'uint64';
export const variant = 'variant';
/** TensorFlow's other names for two of them. */
export const double = 'float64';
export const half = 'float16';
