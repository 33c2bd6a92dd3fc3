/** Appends a list of any length. `push(...more)` overflows the stack at about 100,000 entries. */
export const append = <T>(to: T[], more: readonly T[]): void => {
  for (const entry of more) to.push(entry)
}
