/** The source files of the package, parsed: what each imports, its length, where it uses `any`. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const SRC = fileURLToPath(new URL('../../src', import.meta.url));

export interface Import {
  /** The imported file, relative to src/; undefined for packages and files outside. */
  readonly file: string | undefined;
  readonly specifier: string;
  /** Type-only imports are erased, and dynamic ones are not part of loading. */
  readonly kind: 'value' | 'type' | 'dynamic';
}

export interface SourceFile {
  /** Relative to src/, with slashes. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  /** Lines that use the type `any`. */
  readonly anyLines: readonly number[];
}

/** The group and the module: the first two directories, or the file itself if it is directly under src/. */
export const moduleOf = (path: string): string => path.split('/').slice(0, 2).join('/');

export const isGenerated = (path: string): boolean => path.includes('/generated/');
/** Tests and test helpers. */
export const isForTests = (path: string): boolean => /\.test\.ts$|\/testing\//.test(path);

export function readSources(root = SRC): SourceFile[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => path.split(sep).join('/'))
    .sort()
    .map((path) => parse(path, readFileSync(join(root, path), 'utf8'), root));
}

export function parse(path: string, text: string, root = SRC): SourceFile {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const imports: Import[] = [];
  const anyLines: number[] = [];
  const add = (specifier: string, kind: Import['kind']) =>
    imports.push({ file: resolve(path, specifier, root), specifier, kind });
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add((node.moduleSpecifier as ts.StringLiteral).text, importKind(node));
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      add((node.moduleSpecifier as ts.StringLiteral).text, exportKind(node));
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [argument] = node.arguments;
      if (argument && ts.isStringLiteral(argument)) add(argument.text, 'dynamic');
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add((node.argument.literal as ts.StringLiteral).text, 'type');
    } else if (node.kind === ts.SyntaxKind.AnyKeyword) {
      anyLines.push(source.getLineAndCharacterOfPosition(node.getStart()).line + 1);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return { path, lines: text.split('\n').length - 1, imports, anyLines };
}

function importKind({ importClause }: ts.ImportDeclaration): 'value' | 'type' {
  if (!importClause) return 'value';
  if (importClause.phaseModifier === ts.SyntaxKind.TypeKeyword) return 'type';
  const { name, namedBindings } = importClause;
  if (name || !namedBindings || ts.isNamespaceImport(namedBindings)) return 'value';
  return namedBindings.elements.every((element) => element.isTypeOnly) ? 'type' : 'value';
}

function exportKind({ isTypeOnly, exportClause }: ts.ExportDeclaration): 'value' | 'type' {
  if (isTypeOnly) return 'type';
  if (!exportClause || !ts.isNamedExports(exportClause)) return 'value';
  return exportClause.elements.every((element) => element.isTypeOnly) ? 'type' : 'value';
}

function resolve(from: string, specifier: string, root: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  const target = relative(root, join(root, dirname(from), specifier))
    .split(sep)
    .join('/');
  return target.startsWith('..') ? undefined : target.replace(/\.js$/, '.ts');
}
