/** Compares the rules of a switch with the optimum: `npm run switching -- [--sessions 10000]`. */
import { compare, table } from './compare.ts'

const at = process.argv.indexOf('--sessions')
const sessions = at === -1 ? 10_000 : Number(process.argv[at + 1])
if (!Number.isInteger(sessions) || sessions < 1) throw new Error('--sessions takes a number')
process.stdout.write(`${table(compare(sessions))}\n`)
