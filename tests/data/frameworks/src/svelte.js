import { mount } from "svelte";
import App from "./App.svelte";
import { root } from "./data.js";

mount(App, { target: root });
