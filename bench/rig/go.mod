module headgate.example/rig

go 1.24
