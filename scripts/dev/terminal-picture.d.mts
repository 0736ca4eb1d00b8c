export interface Cell {
  readonly character: string;
  readonly color?: string;
  readonly isBold?: boolean;
}
export function screenLines(text: string): Cell[][];
export function chosenLines(lines: Cell[][], ranges: string | undefined): Cell[][];
export function picture(
  lines: Cell[][],
  options: { readonly title: string; readonly columns: number },
): string;
