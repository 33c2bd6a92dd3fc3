import { sql } from 'kysely'
import { POSTGRES_TYPES } from '../column-types.ts'
import type { SqlSyntax } from '../syntax.ts'

export const POSTGRES: SqlSyntax = {
  among: (value, texts) => sql`${value} = ANY(${texts}::text[])`,
  member: (json, name) => sql`(${json}::json ->> ${sql.lit(name)})`,
  hasPair: (json, name, pairs) => {
    const [names, values] = [0, 1].map((at) => pairs.map((pair) => pair[at]))
    return sql`EXISTS (SELECT 1 FROM json_each_text(coalesce(${json}::json -> ${sql.lit(name)}, '{}')) AS found (name, value)
      JOIN unnest(${names}::text[], ${values}::text[]) AS pair (name, value)
      ON found.name = pair.name AND found.value = pair.value)`
  },
  contains: (text, part) => sql`strpos(${text}, ${part}) > 0`,
  greater: (one, other) => sql`greatest(${one}, ${other})`,
  rows: (json, columns) => {
    const types = Object.entries<'integer' | 'text'>(columns).map(
      ([name, type]) => sql`${sql.ref(name)} ${sql.raw(POSTGRES_TYPES[type])}`,
    )
    return sql`SELECT * FROM json_to_recordset(${json}::json) AS found (${sql.join(types)})`
  },
}
