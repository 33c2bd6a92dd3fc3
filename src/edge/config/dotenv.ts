/** What a `.env` file says. Node's parser is asked for and not imported: an import of `node:util` loads what threads need as well. */
export const parseDotenv = (text: string): Readonly<Record<string, string | undefined>> =>
  process.getBuiltinModule('node:util').parseEnv(text.replace(/^\ufeff/, ''))
