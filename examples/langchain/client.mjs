import { ChatOpenAI } from '@langchain/openai'

const url = process.env.HEADGATE_URL ?? 'http://127.0.0.1:3000'
const model = new ChatOpenAI({
  model: 'openai/gpt-5-mini',
  apiKey: process.env.HEADGATE_API_KEY ?? 'any',
  configuration: { baseURL: `${url}/v1` },
})

const answer = await model.invoke('hello')
console.log(answer.content)

let streamed = ''
for await (const piece of await model.stream('hello')) streamed += piece.content
console.log(streamed)
