/** Parses a `.env` file. Uses `getBuiltinModule`, since importing `node:util` also loads modules for threads. */
export const parseDotenv = (text: string): Readonly<Record<string, string | undefined>> =>
  process.getBuiltinModule('node:util').parseEnv(text.replace(/^\ufeff/, ''))
