/** Environment variables by name. */
export type Env = Readonly<Record<string, string | undefined>>
