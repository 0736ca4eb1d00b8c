/** Messages as protobuf's text format, which people and `google.protobuf.text_format` read. */
import { type DescField, type DescMessage, type MessageShape, ScalarType } from '@bufbuild/protobuf';
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';

export function textFormat<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): string {
  const lines: string[] = [];
  write(reflect(schema, message), '', lines);
  return lines.map((line) => `${line}\n`).join('');
}

function write(message: ReflectMessage, indent: string, lines: string[]): void {
  for (const field of message.sortedFields) {
    if (!message.isSet(field)) continue;
    const name = `${indent}${field.name}`;
    switch (field.fieldKind) {
      case 'list':
        for (const item of message.get(field)) writeValue(name, field, item, indent, lines);
        break;
      case 'map':
        for (const [key, value] of message.get(field)) {
          lines.push(`${name} {`);
          lines.push(`${indent}  key: ${scalar(field.mapKey, key)}`);
          writeValue(`${indent}  value`, field, value, `${indent}  `, lines);
          lines.push(`${indent}}`);
        }
        break;
      default:
        writeValue(name, field, message.get(field), indent, lines);
    }
  }
}

function writeValue(name: string, field: DescField, value: unknown, indent: string, lines: string[]): void {
  if (field.message) {
    lines.push(`${name} {`);
    write(value as ReflectMessage, `${indent}  `, lines);
    lines.push(`${indent}}`);
  } else if (field.enum) {
    lines.push(`${name}: ${field.enum.value[value as number]?.name ?? String(value)}`);
  } else if (field.scalar !== undefined) {
    lines.push(`${name}: ${scalar(field.scalar, value)}`);
  }
}

function scalar(type: ScalarType, value: unknown): string {
  switch (type) {
    case ScalarType.BYTES:
      return quoted(value as Uint8Array);
    case ScalarType.STRING:
      return quoted(new TextEncoder().encode(value as string));
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      return number(value as number);
    default:
      return String(value);
  }
}

function number(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  return Object.is(value, -0) ? '-0' : String(value);
}

/** Bytes that are no printable characters, and those with a meaning here, by their octal numbers. */
function quoted(bytes: Uint8Array): string {
  let text = '"';
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x27 && byte !== 0x5c;
    text += isPlain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
  }
  return `${text}"`;
}
