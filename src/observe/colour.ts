/** Terminal colours. */

export type Paint = {
  readonly dim: (text: string) => string
  readonly bold: (text: string) => string
  readonly good: (text: string) => string
  readonly warn: (text: string) => string
  readonly bad: (text: string) => string
}

const unchanged = (text: string): string => text
export const noPaint: Paint = { dim: unchanged, bold: unchanged, good: unchanged, warn: unchanged, bad: unchanged }

const code = (open: number, close: number) => (text: string) => `\u001b[${open}m${text}\u001b[${close}m`
export const colours: Paint = {
  dim: code(2, 22),
  bold: code(1, 22),
  good: code(32, 39),
  warn: code(33, 39),
  bad: code(31, 39),
}

/** Whether to use colours: `NO_COLOR` disables them, then `FORCE_COLOR` decides, then whether the output is a terminal (no-color.org, force-color.org). */
export const wantsColour = (env: Readonly<Record<string, string | undefined>>, terminal: boolean): boolean => {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== '')
    return env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false'
  return terminal && env.TERM !== 'dumb'
}

export const paintFor = (env: Readonly<Record<string, string | undefined>>, terminal: boolean): Paint =>
  wantsColour(env, terminal) ? colours : noPaint
