import { sql } from 'kysely'
import type { SqlSyntax } from '../syntax.ts'

export const SQLITE: SqlSyntax = {
  among: (value, texts) => sql`${value} IN (SELECT value FROM json_each(${JSON.stringify(texts)}))`,
  member: (json, name) => sql`json_extract(${json}, ${`$.${name}`})`,
  hasPair: (json, name, pairs) =>
    sql`EXISTS (SELECT 1 FROM json_each(${json}, ${`$.${name}`}) AS found JOIN json_each(${JSON.stringify(pairs)}) AS pair
      ON found.key = json_extract(pair.value, '$[0]') AND found.value = json_extract(pair.value, '$[1]'))`,
  contains: (text, part) => sql`instr(${text}, ${part}) > 0`,
  greater: (one, other) => sql`max(${one}, ${other})`,
  rows: (json, columns) => {
    const values = Object.keys(columns).map((name) => sql`value ->> ${sql.lit(name)} AS ${sql.ref(name)}`)
    return sql`SELECT ${sql.join(values)} FROM json_each(${json})`
  },
}
