import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText } from 'ai'

const url = process.env.HEADGATE_URL ?? 'http://127.0.0.1:3000'
const headgate = createOpenAICompatible({
  name: 'headgate',
  baseURL: `${url}/v1`,
  apiKey: process.env.HEADGATE_API_KEY ?? 'any',
})
const model = headgate('openai/gpt-5-mini')

const { text } = await generateText({ model, prompt: 'hello' })
console.log(text)

let streamed = ''
for await (const piece of streamText({ model, prompt: 'hello' }).textStream) streamed += piece
console.log(streamed)
