use super::*;

#[test]
fn scratch() {
    let dir = "/tmp/sess/hlo";
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "pb")).collect();
    names.sort();
    for p in names {
        let (program, _) = crate::program::read_hlo_proto(&std::fs::read(&p).unwrap());
        let e = program.memory_estimate(MemorySpace::Hbm);
        let Some(e) = e else { println!("{p:?} none scheduled {}", program.is_scheduled); continue };
        println!("EST {} arg {} out {} alias {} temp {} const {} peak {} pad {} at {}", p.file_stem().unwrap().to_str().unwrap(), e.arguments.0, e.outputs.0, e.aliased.0, e.temporaries.0, e.constants.0, e.peak().0, e.padding.0, e.at.and_then(|o| program.get(o)).map_or("", |i| i.name.as_str()));
    }
}
