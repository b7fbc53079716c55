package main

func ignoreBackgroundReads() {}
