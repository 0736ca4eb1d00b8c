/** Draws a digit in a terminal: one line for two rows of pixels, since a character is twice as high as wide. */
const SHADES = [' ', '░', '▒', '▓', '█'] as const;

export function drawDigit(image: ArrayLike<number>): string {
  const lines: string[] = [];
  for (let row = 0; row < 28; row += 2) {
    let line = '';
    for (let column = 0; column < 28; column++) {
      const upper = image[row * 28 + column] ?? 0;
      const lower = image[(row + 1) * 28 + column] ?? 0;
      line += SHADES[Math.round(((upper + lower) / 2) * (SHADES.length - 1))] ?? ' ';
    }
    lines.push(line.trimEnd());
  }
  return lines.join('\n').replace(/^\n+|\n+$/g, '');
}
