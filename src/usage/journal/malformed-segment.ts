/** A segment of the journal with lines that cannot be read. */
export type MalformedSegment = { readonly segment: string; readonly lines: number }

/** For the log. */
export const malformedMessage = ({ segment, lines }: MalformedSegment): string =>
  `The journal segment ${segment} has ${lines} unreadable lines. It is kept as ${segment}.broken.`
