export function bundlePrograms(
  root: string,
  entryPoints: readonly { readonly out: string; readonly in: string }[],
  outdir: string,
): Promise<void>;
