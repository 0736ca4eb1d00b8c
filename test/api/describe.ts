/**
 * Describes what an entry point of the package exports as text: one block per name, sorted, with its signature or its
 * public members as they are declared. The text contains no file paths and no comments, so it is the same on every
 * machine. Members that are private or tagged `@internal` are left out, and of a class that is exported as a type also
 * what belongs to its constructor.
 */
import { join } from 'node:path';
import ts from 'typescript';

/** Namespaces that are listed by name only: generated code, one function for each of TensorFlow's ops. */
const NAMES_ONLY = new Set(['tf.raw']);

const FORMAT =
  ts.TypeFormatFlags.NoTruncation |
  ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope |
  ts.TypeFormatFlags.UseSingleQuotesForStringLiteralType;

export interface ApiDescription {
  /** The text for each entry point. */
  readonly texts: ReadonlyMap<string, string>;
  /** Types of this codebase that public declarations mention although no entry point exports them. */
  readonly unexported: readonly string[];
}

/** `entries` maps the name of an entry point to its source file. */
export function describeApi(root: string, entries: Readonly<Record<string, string>>): ApiDescription {
  const files = Object.values(entries).map((file) => join(root, file));
  const describer = new Describer(createProgram(root, files), join(root, 'src'));
  const texts = Object.entries(entries).map(
    ([name, file]) => [name, describer.module(join(root, file))] as const,
  );
  return { texts: new Map(texts), unexported: describer.unexported() };
}

/** Packages are not read: their types appear by name, and reading them would take most of the time. */
function createProgram(root: string, files: readonly string[]): ts.Program {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson({ ...config.compilerOptions, types: [] }, root);
  const host = ts.createCompilerHost(options);
  host.resolveModuleNameLiterals = (literals, from) =>
    literals.map(({ text }) => ({
      resolvedModule: text.startsWith('.')
        ? ts.resolveModuleName(text, from, options, host).resolvedModule
        : undefined,
    }));
  return ts.createProgram(files, { ...options, incremental: false, tsBuildInfoFile: undefined }, host);
}

class Describer {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;
  readonly #sources: string;
  readonly #exported = new Set<ts.Symbol>();
  /** The names under which the module that is being described exports what it has. */
  #described = new Map<ts.Symbol, string>();
  readonly #mentioned = new Map<ts.Symbol, string>();

  constructor(program: ts.Program, sources: string) {
    this.#program = program;
    this.#checker = program.getTypeChecker();
    this.#sources = sources;
  }

  module(file: string): string {
    const source = this.#program.getSourceFile(file);
    const symbol = source && this.#checker.getSymbolAtLocation(source);
    if (!symbol) throw new Error(`${file} is not a module`);
    this.#described = new Map();
    return `${this.#exports(symbol, '').join('\n')}\n`;
  }

  unexported(): readonly string[] {
    return [...this.#mentioned]
      .filter(([symbol]) => !this.#exported.has(symbol))
      .map(([symbol, user]) => `${symbol.name} (in ${user})`)
      .sort();
  }

  /** Namespaces come last, so that an alias refers to the shorter name. */
  #exports(module: ts.Symbol, prefix: string): readonly string[] {
    const isNamespace = (symbol: ts.Symbol) =>
      this.#resolve(symbol).declarations?.some(ts.isSourceFile) ?? false;
    return this.#checker
      .getExportsOfModule(module)
      .sort((a, b) => Number(isNamespace(a)) - Number(isNamespace(b)) || (a.name < b.name ? -1 : 1))
      .flatMap((symbol) => this.#blocks(prefix + symbol.name, symbol));
  }

  #blocks(name: string, exported: ts.Symbol): readonly string[] {
    const symbol = this.#resolve(exported);
    const declarations = symbol.declarations ?? [];
    if (NAMES_ONLY.has(name))
      return this.#checker
        .getExportsOfModule(symbol)
        .map((op) => `${name}.${op.name}`)
        .sort();
    if (declarations.some(ts.isSourceFile)) return this.#exports(symbol, `${name}.`);
    const known = this.#described.get(symbol);
    if (known) return [`${name} = ${known}`];
    this.#described.set(symbol, name);
    this.#exported.add(symbol);
    const isType = exported.declarations?.some((one) => ts.isTypeOnlyExportDeclaration(one)) ?? false;
    for (const one of declarations) this.#collect(one, name, isType);
    return publicOf(declarations).map((one) => this.#declaration(name, one, isType));
  }

  #declaration(name: string, node: ts.Declaration, isType: boolean): string {
    if (ts.isFunctionDeclaration(node)) return `function ${name}${this.#signature(node, ': ')}`;
    if (ts.isTypeAliasDeclaration(node)) return `type ${name}${typeParameters(node)} = ${textOf(node.type)}`;
    if (ts.isInterfaceDeclaration(node))
      return block(`interface ${name}${heritage(node)}`, this.#members(node.members));
    if (ts.isClassDeclaration(node)) {
      const isAbstract = ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Abstract;
      const kind = isType ? 'type class' : isAbstract ? 'abstract class' : 'class';
      return block(`${kind} ${name}${heritage(node)}`, this.#members(node.members, isType));
    }
    if (ts.isVariableDeclaration(node)) return `const ${name}${this.#constant(node)}`;
    throw new Error(`${name} is a ${ts.SyntaxKind[node.kind]}, which this description does not know`);
  }

  /** A function as a signature, an object of functions as its members, anything else by its type. */
  #constant({ type, initializer, name }: ts.VariableDeclaration): string {
    if (type) return `: ${textOf(type)}`;
    if (initializer && ts.isArrowFunction(initializer)) return `: ${this.#signature(initializer, ' => ')}`;
    if (initializer && ts.isObjectLiteralExpression(initializer))
      return block('', this.#members(initializer.properties));
    return `: ${this.#type(this.#checker.getTypeAtLocation(name))}`;
  }

  #members(
    nodes: readonly (ts.ClassElement | ts.TypeElement | ts.ObjectLiteralElementLike)[],
    isType = false,
  ) {
    const members = publicOf(nodes).filter((node) => !isType || !isOfConstructor(node));
    return members.flatMap((node) => this.#member(node)).sort();
  }

  #member(node: ts.Declaration): readonly string[] {
    if (ts.isClassStaticBlockDeclaration(node) || ts.isSetAccessor(node)) return [];
    if (ts.isConstructorDeclaration(node)) return [`constructor(${this.#parameters(node)})`];
    if (ts.isCallSignatureDeclaration(node)) return [this.#signature(node, ': ')];
    const flags = ts.getCombinedModifierFlags(node);
    const words = [
      flags & ts.ModifierFlags.Protected ? 'protected ' : '',
      flags & ts.ModifierFlags.Static ? 'static ' : '',
      flags & ts.ModifierFlags.Abstract ? 'abstract ' : '',
      flags & ts.ModifierFlags.Readonly || ts.isGetAccessor(node) ? 'readonly ' : '',
    ].join('');
    const optional = 'questionToken' in node && node.questionToken ? '?' : '';
    const name = `${words}${textOf(ts.getNameOfDeclaration(node) ?? node)}${optional}`;
    if (ts.isMethodDeclaration(node) || ts.isMethodSignature(node))
      return [`${name}${this.#signature(node, ': ')}`];
    const type = 'type' in node ? (node.type as ts.TypeNode | undefined) : undefined;
    return [`${name}: ${type ? textOf(type) : this.#type(this.#checker.getTypeAtLocation(node))}`];
  }

  #signature(node: ts.SignatureDeclaration, arrow: string): string {
    const signature = this.#checker.getSignatureFromDeclaration(node);
    const result = node.type
      ? textOf(node.type)
      : signature && this.#type(this.#checker.getReturnTypeOfSignature(signature));
    return `${typeParameters(node)}(${this.#parameters(node)})${arrow}${result}`;
  }

  /** Without default values; an object that is taken apart is called `options`. */
  #parameters({ parameters }: ts.SignatureDeclaration): string {
    return parameters
      .map((parameter) => {
        const { name, type, initializer, questionToken, dotDotDotToken } = parameter;
        const shown = ts.isIdentifier(name) ? name.text : 'options';
        const text = type ? textOf(type) : this.#type(this.#checker.getTypeAtLocation(parameter));
        return `${dotDotDotToken ? '...' : ''}${shown}${questionToken || initializer ? '?' : ''}: ${text}`;
      })
      .join(', ');
  }

  #type(type: ts.Type): string {
    return this.#checker.typeToString(type, undefined, FORMAT);
  }

  #resolve(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  /** Notes the types that the public part of a declaration mentions. */
  #collect(node: ts.Node, user: string, isType: boolean): void {
    if (ts.isBlock(node) || !isPublic(node) || (isType && isOfConstructor(node))) return;
    if (ts.isTypeReferenceNode(node)) this.#mention(node.typeName, user);
    if (ts.isExpressionWithTypeArguments(node)) this.#mention(node.expression, user);
    ts.forEachChild(node, (child) => this.#collect(child, user, isType));
  }

  #mention(name: ts.Node, user: string): void {
    const found = this.#checker.getSymbolAtLocation(name);
    const symbol = found && this.#resolve(found);
    const [declaration] = symbol?.declarations ?? [];
    if (!symbol || !declaration || ts.isTypeParameterDeclaration(declaration)) return;
    const { fileName } = declaration.getSourceFile();
    if (!fileName.startsWith(this.#sources) || fileName.includes('/generated/')) return;
    if (!this.#mentioned.has(symbol)) this.#mentioned.set(symbol, user);
  }
}

/** Public declarations; of an overloaded function the overloads without the implementation. */
function publicOf<T extends ts.Declaration>(nodes: readonly T[]): readonly T[] {
  const key = (node: T) => `${isStatic(node)} ${ts.getNameOfDeclaration(node)?.getText()}`;
  const isImplementation = (node: T) => 'body' in node && node.body !== undefined;
  const overloaded = new Set(
    nodes
      .filter(
        (node) => (ts.isMethodDeclaration(node) || ts.isFunctionDeclaration(node)) && !isImplementation(node),
      )
      .map(key),
  );
  return nodes.filter((node) => isPublic(node) && !(isImplementation(node) && overloaded.has(key(node))));
}

function isPublic(node: ts.Node): boolean {
  const name = ts.getNameOfDeclaration(node as ts.Declaration);
  if (name && ts.isPrivateIdentifier(name)) return false;
  if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')) return false;
  const modifiers = ts.canHaveModifiers(node) ? ts.getModifiers(node) : undefined;
  return !modifiers?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword);
}

const isStatic = (node: ts.Node): boolean =>
  (ts.getCombinedModifierFlags(node as ts.Declaration) & ts.ModifierFlags.Static) !== 0;

const isOfConstructor = (node: ts.Node): boolean =>
  ts.isConstructorDeclaration(node) || (ts.isClassElement(node) && isStatic(node));

const typeParameters = (node: {
  readonly typeParameters?: ts.NodeArray<ts.TypeParameterDeclaration>;
}): string => (node.typeParameters ? `<${node.typeParameters.map(textOf).join(', ')}>` : '');

const heritage = (node: ts.ClassDeclaration | ts.InterfaceDeclaration): string =>
  [typeParameters(node), ...(node.heritageClauses ?? []).map((clause) => ` ${textOf(clause)}`)].join('');

/** The source text on one line, without comments. */
function textOf(node: ts.Node): string {
  return node
    .getText()
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/\s+/g, ' ')
    .replace(/^ ?\| /, '')
    .replace(/;? \}/g, ' }')
    .replace(/,? ([)\]>])/g, '$1')
    .replace(/([([<]) (\| )?/g, '$1')
    .replace(/([=:]) \| /g, '$1 ')
    .trim();
}

function block(head: string, lines: readonly string[]): string {
  return lines.length === 0 ? `${head} {}` : `${head} {\n${lines.map((line) => `  ${line}\n`).join('')}}`;
}
