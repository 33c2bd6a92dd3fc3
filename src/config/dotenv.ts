import type { Env } from './env.ts'

/** Parses a `.env` file. Uses `getBuiltinModule`, since importing `node:util` also loads modules for threads. */
export const parseDotenv = (text: string): Env =>
  process.getBuiltinModule('node:util').parseEnv(text.replace(/^\ufeff/, ''))
