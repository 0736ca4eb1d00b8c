/** The targets of a page's links to files and headings: those that name no host. */
export function relativeLinks(page: string): readonly string[] {
  const text = page.replace(/^```[\s\S]*?^```$/gm, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) =>
    /^https?:/.test(target) ? [] : [target],
  );
}
