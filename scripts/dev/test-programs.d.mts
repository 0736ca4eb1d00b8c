export function bundledProgram(source: string): string;
export function programsAreCurrent(): boolean;
