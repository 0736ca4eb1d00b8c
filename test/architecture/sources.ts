/** Source files, parsed: what each imports and exports, its length and that of its functions, where it uses `any`. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const SRC = join(ROOT, 'src');

export interface Import {
  /** The imported file, relative to the root; undefined for packages and files outside. */
  readonly file: string | undefined;
  readonly specifier: string;
  /** Type-only imports are erased, and dynamic ones are not part of loading. */
  readonly kind: 'value' | 'type' | 'dynamic';
}

export interface SourceFile {
  /** Relative to the root of the files, with slashes. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  /** Lines that use the type `any`. */
  readonly anyLines: readonly number[];
  /** The names that the file declares and exports. */
  readonly exports: readonly string[];
  readonly functions: readonly FunctionLength[];
}

export interface FunctionLength {
  /** The name of the function, or of what it is assigned to. */
  readonly name: string;
  readonly lines: number;
}

/** The group and the module: the first two directories, or the file itself if it is directly under src/. */
export const moduleOf = (path: string): string => path.split('/').slice(0, 2).join('/');

export const isGenerated = (path: string): boolean => path.includes('/generated/');
/** Tests and test helpers. */
export const isForTests = (path: string): boolean => /\.test\.ts$|\/testing\//.test(path);

/** The files of a directory, in order, relative to `root`. */
export const filesIn = (directory: string, root = ROOT): string[] =>
  readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' })
    .map((path) => join(directory, path).split(sep).join('/'))
    .sort();

export const readSources = (root = SRC): SourceFile[] => parseFiles(filesIn('.', root), root);

/** Parses those of the files that are TypeScript or JavaScript. */
export const parseFiles = (paths: readonly string[], root = ROOT): SourceFile[] =>
  paths
    .filter((path) => /\.(ts|mjs)$/.test(path))
    .map((path) => parse(path, readFileSync(join(root, path), 'utf8'), root));

export function parse(path: string, text: string, root = SRC): SourceFile {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const imports: Import[] = [];
  const anyLines: number[] = [];
  const functions: FunctionLength[] = [];
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
    if (ts.isFunctionLike(node) && 'body' in node && node.body) {
      const line = (position: number) => source.getLineAndCharacterOfPosition(position).line;
      functions.push({ name: nameOf(node), lines: line(node.getEnd()) - line(node.getStart()) + 1 });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  const exports = source.statements.flatMap(exportedNames);
  return { path, lines: text.split('\n').length - 1, imports, anyLines, exports, functions };
}

function nameOf({ name, parent }: ts.SignatureDeclaration): string {
  if (name) return name.getText();
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent.name.getText() : '';
}

function exportedNames(statement: ts.Statement): string[] {
  if (!ts.canHaveModifiers(statement)) return [];
  const isExported = ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
  if (!isExported) return [];
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) =>
      ts.isIdentifier(name) ? [name.text] : [],
    );
  }
  const { name } = statement as ts.DeclarationStatement;
  return name ? [name.text] : [];
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
